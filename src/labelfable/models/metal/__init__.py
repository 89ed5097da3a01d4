"""Multi-task weak supervision (MeTaL): tables from the second moments of the votes."""
