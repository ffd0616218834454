"""Reviews: proposals, claims, discussions, counter-patches and verdicts."""
