"""The command line: `tandem <noun> <verb>`; commands that are operations come from the registry."""
