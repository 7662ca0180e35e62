"""Campaigns of real faults: processes are killed, frozen and robbed of their data, and
the database says afterwards whether anything was lost or done twice."""
