/** Who asks, and what they may do. */
import type { FastifyRequest } from 'fastify'
import { ServiceError } from './errors.ts'

/** Somebody whom the service knows. */
export interface Identity {
  /** For limits and logs. */
  readonly subject: string
  /** The node it speaks for; undefined for everybody on a service without authentication: every one. */
  readonly node: string | undefined
  /** Whether it may take part in a group. */
  mayJoin(groupId: string): boolean
  readonly admin: boolean
  readonly reader: boolean
  /** When what it showed runs out, in Unix milliseconds. */
  readonly expiresAtMs: number | undefined
}

/** Everybody, on a service without authentication. */
const anybody: Identity = {
  subject: 'anybody',
  node: undefined,
  mayJoin: () => true,
  admin: true,
  reader: true,
  expiresAtMs: undefined,
}

/** Whoever asks what is told to all. */
export const nobody: Identity = {
  subject: 'nobody',
  node: '',
  mayJoin: () => false,
  admin: false,
  reader: false,
  expiresAtMs: undefined,
}

/** Finds out who asks. */
export interface Authenticator {
  identify(request: FastifyRequest): Identity | Promise<Identity>
  /** How often keys and rights were read again: what was found out before that may not be so any more. */
  readonly generation: number
  /** Reads keys and rights again. What cannot be read leaves everything as it was, and rejects. */
  reload(): Promise<void>
}

/** Without authentication everybody may do everything. */
export const open: Authenticator = { identify: () => anybody, generation: 0, reload: async () => {} }

/** May take part in a group, for this node. A node can speak only for itself. */
export function mayAct(identity: Identity, groupId: string, nodeId: string): void {
  if (identity.node !== undefined && identity.node !== nodeId) {
    throw new ServiceError('UNAUTHORIZED', `This identity speaks for another node than "${nodeId}".`)
  }
  if (!identity.mayJoin(groupId)) {
    throw new ServiceError('UNAUTHORIZED', `This identity may not take part in group "${groupId}".`)
  }
}

export function canRead(identity: Identity, groupId: string): boolean {
  return identity.reader || identity.admin || identity.mayJoin(groupId)
}

export function mayRead(identity: Identity, groupId: string): void {
  if (canRead(identity, groupId)) return
  throw new ServiceError('UNAUTHORIZED', `This identity may not see group "${groupId}".`)
}

export function mayAdminister(identity: Identity): void {
  if (identity.admin) return
  throw new ServiceError('UNAUTHORIZED', 'Only an administrator may do this.')
}

/** May see figures of the whole service. */
export function mayReadAll(identity: Identity): void {
  if (identity.admin || identity.reader) return
  throw new ServiceError('UNAUTHORIZED', 'Only a reader or an administrator may see this.')
}

/** How long what it showed is still good for. */
export function validForMs({ expiresAtMs = Infinity }: Identity, wallMs: number): number {
  return Math.max(0, expiresAtMs - wallMs)
}
