"""The outcomes of the checks of a test."""


class Outcomes:
    """Prints the outcome of each check, with at most 12 of its faults, and knows whether any check failed."""

    def __init__(self):
        self.failed = 0

    def report(self, what, faults):
        self.failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok'}: {what}", flush=True)
        for line in faults[:12]:
            print(f"  {line[:900]}")

    def status(self):
        """The exit status of the test."""
        return 1 if self.failed else 0
