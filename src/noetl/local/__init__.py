"""Files of NOETL_HOME: the home, process files, control socket, log files, services."""
