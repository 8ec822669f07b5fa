"""What a fitted model says: answers that are blended from its parts, for each target."""
