/** The share of each proof that `npm test` runs. `npm run test:all` runs all of it. */
export const everydayFleetHours = 30
export const fleetHours = 1_000

/** `npm test` checks one in this many mutants, and begins where they are found soonest. */
const everydayStep = 8
const everydayFirst = 5

export function everydayShare<T>(mutants: readonly T[]): T[] {
  return mutants.filter((_, index) => index % everydayStep === everydayFirst)
}
