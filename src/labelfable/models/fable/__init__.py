"""FABLE: votes and features in one model, after Zhang, Song and Ratner (AISTATS 2023)."""
