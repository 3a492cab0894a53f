import type { CallOptions, LeaseStore } from '../lease-store.ts'

/** Something about a server's settings that a program which relies on it should know: what it is, and what to do. */
export interface Finding {
  /** `unsafe`: two could lead, or a term come back. `tight`: it works, and could fail less. */
  readonly risk: 'unsafe' | 'tight'
  readonly text: string
}

/** A store whose server has settings that matter. `tenure doctor` asks for them. */
export interface InspectableStore extends LeaseStore {
  /** What is wrong with the server's settings, the worst first; nothing if all is well. */
  inspect(options: CallOptions): Promise<readonly Finding[]>
  /** Ends the connections that it opened itself. */
  close(): Promise<void>
}
