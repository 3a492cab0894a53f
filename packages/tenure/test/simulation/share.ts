/** What `npm test` takes from each proof. `npm run test:all` does the whole. */
export const everydayFleetHours = 30
export const fleetHours = 1_000

/** Every so many mutants one, beginning with the first. */
const everydayStep = 8

export function everydayShare<T>(mutants: readonly T[]): T[] {
  return mutants.filter((_, index) => index % everydayStep === 0)
}
