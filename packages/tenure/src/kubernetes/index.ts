/** Leader election for controllers, with the callbacks they are used to. */
export { LeaderElector, type LeaderCallbacks, type LeaderElectorOptions } from '../styles/leader-elector.ts'
