"""What a host is asked, whatever is on it: files, packages, programs, people."""
