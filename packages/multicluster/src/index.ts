/** One leader across clusters: the controller of MultiClusterLeases and its parts. */
export { startController, type Controller, type ControllerHealth, type ControllerOptions } from './controller.ts'
export type { GlobalCallReport, LeadershipReport, RelayObserver } from './observer.ts'
export { Relay, type RelayLoad, type RelayOptions } from './relay.ts'
