const numbers: unknown[] = [Number.NaN, -1, 0, -0, 1.5, 2 ** 53, Infinity, -Infinity]
const others: unknown[] = ['5', '', 5n, null, undefined, true, [5], { valueOf: () => 5 }, new Number(5)]

/** Values that are not terms. Terms are safe integers from 1. */
export const hostileTerms = [...numbers, ...others]
