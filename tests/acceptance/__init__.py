"""Tests with real processes and real SMTP."""
