#!/bin/sh
# What a bare GPU machine with PyTorch, SciPy and scikit-learn lacks, and this tree's own sources, in one folder that git
# ignores: PYTHONPATH=build/device_carry/packages:build/device_carry/src python3 build/device_carry/benchmarks/gpu.py
set -eu
cd "$(dirname "$0")/.."
target=${1:-build/device_carry}
python=${PYTHON:-.venv/bin/python}
rm -rf "$target" && mkdir -p "$target/packages"
found=$("$python" -c 'import array_api_compat, pathlib; print(pathlib.Path(array_api_compat.__file__).parent)')
cp -r "$found" "$target/packages/"
cp -r src benchmarks tests pyproject.toml "$target/"
find "$target" -name __pycache__ -prune -exec rm -rf {} +
du -sh "$target"
