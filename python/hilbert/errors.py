"""What hilbert raises. The message is the one line that the library wrote."""


class Error(RuntimeError):
    """A call of hilbert failed."""


class UsageError(Error, ValueError):
    """The arguments, or the order of calls, are invalid."""


class InputError(Error, ValueError):
    """A file or a value from outside is invalid."""


class BudgetError(Error, MemoryError):
    """It does not fit into the budgets."""


class NumericError(Error, ArithmeticError):
    """NaN or infinity where a number is needed."""


BY_STATUS = {1: UsageError, 2: InputError, 3: Error, 4: Error, 5: BudgetError, 6: NumericError}
