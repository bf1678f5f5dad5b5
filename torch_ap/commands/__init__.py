"""The sub-commands of ``torch-ap``, a module each."""
