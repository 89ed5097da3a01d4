"""Pure functions of arrays: no votes, no models."""
