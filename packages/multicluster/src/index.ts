/** One leader across clusters: the controller of MultiClusterLeases. */
export {
  startController,
  type Controller,
  type ControllerHealth,
  type ControllerOptions,
} from './controller/controller.ts'
export type { GlobalCallReport, LeadershipReport, RelayObserver } from './calls/observer.ts'
