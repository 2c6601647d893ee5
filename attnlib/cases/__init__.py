"""Case studies: published mechanisms, each in the smallest code that agrees with its public form."""
