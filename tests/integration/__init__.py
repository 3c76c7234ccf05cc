"""Tests against PostgreSQL, one file for each promise."""
