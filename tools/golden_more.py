"""golden_more.py - more of golden_configs.py; seeds follow from the names, so rows may stand in any order."""

MORE = {
}
