-- names of all that are configured; the others are no longer
UPDATE channel SET configured = false WHERE configured AND name <> ALL ($1)
