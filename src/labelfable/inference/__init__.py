"""The sweep: local step, add statistics, global step, bound, stop.  No model inside."""
