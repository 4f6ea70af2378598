"""From a plan to rows: certificates, checks, verdicts, the smallest failing input, and its reproducer."""
