"""One file per family of commands; `provision.cli.program` puts them together."""
