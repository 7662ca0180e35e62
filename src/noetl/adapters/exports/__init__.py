"""Receivers of finished executions: OTLP collectors and ClickHouse."""
