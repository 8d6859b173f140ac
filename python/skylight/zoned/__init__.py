"""Drives with zones: the zones as columns (`zones`), whoever reports them."""
