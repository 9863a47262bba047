"""The group coordinator as pure decisions: what all group types share. Start with `coordinator`; each group type is a package."""
