"""Tests of the derivation's own code; its pages are tests themselves."""
