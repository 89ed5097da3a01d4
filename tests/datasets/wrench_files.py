"""A small data set as a folder in WRENCH format."""

import json

import numpy as np

LABELS = {"0": "ham", "1": "spam", "2": "other"}
SIZES = {"train": 40, "valid": 6, "test": 9}
N_ITEMS = sum(SIZES.values())
VOTES = np.random.default_rng(5).integers(-1, len(LABELS), size=(N_ITEMS, 4))
GOLD = np.random.default_rng(6).integers(-1, len(LABELS), size=N_ITEMS)
FEATURES = np.random.default_rng(7).normal(size=(N_ITEMS, 3)).astype(np.float32)
TEXTS = [f'text {item}: ü "quoted" {{"a": [1]}}\n' for item in range(N_ITEMS)]


def entries(*, texts=True, features=False):
    """The content of the three files."""
    content, item = {}, 0
    for split, size in SIZES.items():
        content[split] = {}
        for number in range(size):
            data = ({"text": TEXTS[item]} if texts else {}) | ({"feature": FEATURES[item].tolist()} if features else {})
            entry = {"label": int(GOLD[item]), "weak_labels": VOTES[item].tolist(), "data": data}
            content[split][str(number)] = entry
            item += 1
    return content


def write(folder, content, labels=LABELS):
    """The files of a data set."""
    folder.mkdir()
    for split, items in content.items():
        (folder / f"{split}.json").write_text(json.dumps(items, indent=2, ensure_ascii=False), encoding="utf-8")
    if labels is not None:
        (folder / "label.json").write_text(json.dumps(labels))
    return folder
