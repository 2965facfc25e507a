# SPDX-License-Identifier: GPL-3.0-or-later
"""What benches say of several runs."""
import statistics


def spread(values):
    """The least, the middle and the greatest of what was measured; None of nothing."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    return {'min': min(values), 'median': statistics.median(values), 'max': max(values)}


def p99(values):
    return sorted(values)[-(-len(values) * 99 // 100) - 1]
