"""Solutions in processes of their own: what judges them sees bytes only, and never runs a line of theirs."""
