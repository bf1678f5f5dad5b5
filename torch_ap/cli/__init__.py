"""The command ``torch-ap``, a module for each sub-command."""
