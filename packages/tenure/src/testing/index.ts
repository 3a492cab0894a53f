/** Helpers for testing code that uses Tenure, without real time and without a store. */
export { fakeClock, type FakeClock } from './fake-clock.ts'
export { fakeLeadership, type FakeLeadership } from './fake-leadership.ts'
