"""Every setting: where it comes from, and who may loosen it."""
