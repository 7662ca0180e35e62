"""Triggers on a server: administration, schedules, webhooks, backfills."""
