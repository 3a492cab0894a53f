// Computes and formats figures.

/** @param {number} value */
export function format(value) {
  return Math.abs(value) >= 100 ? String(Math.round(value)) : value.toPrecision(3)
}

/** @param {number[]} values */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle) - 1] ?? NaN)) / 2
}

/** @param {number[]} values @param {number} share */
export function percentile(values, share) {
  return values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? NaN
}
