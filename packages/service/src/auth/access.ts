/** The caller, and what it may do. */
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { ServiceError } from '../errors.ts'
import type { Rights } from './rights.ts'

/** A caller that the service knows. */
export interface Identity extends Rights {
  /** For limits and logs. */
  readonly subject: string
  /** When its credential expires, in Unix milliseconds. */
  readonly expiresAtMs: number | undefined
  /** The name under which its token would be revoked. Undefined: it has no token, or one without an id. */
  readonly revocation: string | undefined
}

/** Every caller of a service without authentication. */
const anybody = allOrNothing('anybody', true)

/** The caller of a route that is open to all. */
export const nobody = allOrNothing('nobody', false)

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
  /** The subject of a caller that was identified before, for a fair order alone: it may have lost its rights since. */
  recall(request: Pick<IncomingMessage, 'headers' | 'socket'>): string | undefined
  /** How often keys and rights were read again: an identity from before may not hold any more. */
  readonly generation: number
  /** Reads keys and rights again. If that fails, everything stays as it was, and it rejects. */
  reload(): Promise<void>
}

/** Without authentication everybody may do everything. */
export const open: Authenticator = {
  identify: () => anybody,
  recall: () => anybody.subject,
  generation: 0,
  reload: async () => {},
}

/** May take part in a group, for this node. A node can speak only for itself. */
export function mayAct(identity: Identity, groupId: string, nodeId: string): void {
  maySpeakFor(identity, nodeId)
  allow(identity.mayJoin(groupId), () => notJoined(groupId))
}

export function maySpeakFor(identity: Identity, nodeId: string): void {
  const text = () => `This identity speaks for another node than "${nodeId}".`
  allow(identity.speaksFor(nodeId), text, { field: 'node_id' })
}

export function notJoined(groupId: string): string {
  return `This identity may not take part in group "${groupId}".`
}

/** May take part in some group: known before the rest of the request is read. */
export function mayTakePart({ mayJoinAny }: Identity): void {
  allow(mayJoinAny, () => 'This identity may not take part in any group.')
}

export function canRead(identity: Identity, groupId: string): boolean {
  return identity.reader || identity.admin || identity.mayJoin(groupId)
}

export function mayRead(identity: Identity, groupId: string): void {
  allow(canRead(identity, groupId), () => `This identity may not see group "${groupId}".`)
}

export function mayAdminister({ admin }: Identity): void {
  allow(admin, () => 'Only an administrator may do this.')
}

/** May see figures of the whole service. */
export function mayReadAll({ admin, reader }: Identity): void {
  allow(admin || reader, () => 'Only a reader or an administrator may see this.')
}

function allow(isAllowed: boolean, refusal: () => string, details: ServiceError['details'] = {}): void {
  if (!isAllowed) throw new ServiceError('UNAUTHORIZED', refusal(), { details })
}

/** How long its credential is still valid. */
export function validForMs({ expiresAtMs = Infinity }: Identity, wallMs: number): number {
  return Math.max(0, expiresAtMs - wallMs)
}
