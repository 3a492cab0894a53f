/** Callers and their permissions. */
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { ServiceError } from '../common/errors.ts'
import type { AccessRights } from './rights.ts'

/** An identified caller. */
export interface Identity extends AccessRights {
  /** The name used in limits and logs. */
  readonly subject: string
  /** When its credential expires, in Unix milliseconds. */
  readonly expiresAtMs: number | undefined
  /** The id under which the caller's token would be revoked. Undefined if it has no token, or a token without an id. */
  readonly revocation: string | undefined
}

/** Every caller of a service without authentication. */
const anybody = allOrNothing('anybody', true)

/** The caller of a route that needs no authentication. */
export const unauthenticated = allOrNothing('nobody', false)

function allOrNothing(subject: string, all: boolean): Identity {
  const always = () => all
  return {
    subject,
    speaksFor: always,
    mayJoin: always,
    mayJoinAny: all,
    admin: all,
    reader: all,
    expiresAtMs: undefined,
    revocation: undefined,
  }
}

/** Identifies callers. */
export interface Authenticator {
  identify(request: FastifyRequest): Identity | Promise<Identity>
  /**
   * Returns the subject of a caller that was identified earlier. Use it only for fair ordering, because the caller may
   * have lost its rights since then.
   */
  recall(request: Pick<IncomingMessage, 'headers' | 'socket'>): string | undefined
  /**
   * How many times keys and rights have been reloaded. An identity from an earlier generation may no longer be valid.
   */
  readonly generation: number
  /** Reloads keys and rights. If that fails, it rejects and keeps the current ones. */
  reload(): Promise<void>
}

/** The authenticator of a service without authentication: every caller may do everything. */
export const openAccess: Authenticator = {
  identify: () => anybody,
  recall: () => anybody.subject,
  generation: 0,
  reload: async () => {},
}

/** Throws unless the caller may take part in the group as this node. A node can act only for itself. */
export function checkMayAct(identity: Identity, groupId: string, nodeId: string): void {
  checkMayActFor(identity, nodeId)
  allow(identity.mayJoin(groupId), () => notJoinedMessage(groupId))
}

export function checkMayActFor(identity: Identity, nodeId: string): void {
  const text = () => `This identity may not act for node "${nodeId}".`
  allow(identity.speaksFor(nodeId), text, { field: 'node_id' })
}

export function notJoinedMessage(groupId: string): string {
  return `This identity may not take part in group "${groupId}".`
}

/**
 * Throws unless the caller may take part in at least one group. This is checked before the rest of the request is read.
 */
export function checkMayTakePart({ mayJoinAny }: Identity): void {
  allow(mayJoinAny, () => 'This identity may not take part in any group.')
}

export function canRead(identity: Identity, groupId: string): boolean {
  return identity.reader || identity.admin || identity.mayJoin(groupId)
}

export function checkMayRead(identity: Identity, groupId: string): void {
  allow(canRead(identity, groupId), () => `This identity may not read group "${groupId}".`)
}

export function checkAdmin({ admin }: Identity): void {
  allow(admin, () => 'This request needs administrator rights.')
}

/** Throws unless the caller may read data about the whole service. */
export function checkMayReadAll({ admin, reader }: Identity): void {
  allow(admin || reader, () => 'This request needs reader or administrator rights.')
}

function allow(isAllowed: boolean, refusal: () => string, details: ServiceError['details'] = {}): void {
  if (!isAllowed) throw new ServiceError('UNAUTHORIZED', refusal(), { details })
}

/** Returns how long the caller's credential stays valid, Infinity if it does not expire. */
export function validForMs({ expiresAtMs = Infinity }: Identity, wallMs: number): number {
  return Math.max(0, expiresAtMs - wallMs)
}
