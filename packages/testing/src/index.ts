/** Helpers for testing code that uses Tenure, without real time and without a store. */
export { fakeClock, type FakeClock } from './fakes/fake-clock.ts'
export { fakeLeadership, type FakeLeadership } from './fakes/fake-leadership.ts'
