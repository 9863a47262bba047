"""Tests of Ottla."""
