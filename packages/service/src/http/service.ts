import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Clock } from 'tenure'
import type { Authenticator, Identity } from '../auth/access.ts'
import type { Revocations } from '../auth/revocations.ts'
import type { Tls } from '../auth/tls.ts'
import type { FairQueue } from '../common/fair-queue.ts'
import type { Metrics } from '../operation/metrics.ts'
import type { Readiness } from '../operation/readiness.ts'
import type { Replicas } from '../replication/replica-views.ts'
import type { Groups, Policy } from '../groups/port.ts'
import type { Hub } from '../watch/hub.ts'
import type { WatchPresence } from '../watch/presence.ts'
import type { OpenResponses } from './watch/open-responses.ts'
import type { Limits } from './limits.ts'

export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity
    /** The authenticator's generation when it identified the caller. */
    generation: number
    /** Ends the turn of a large request. Called when the request is answered, or its sender has disconnected. */
    leaveTurn: (() => void) | undefined
    bodyBytes: number
  }
  interface FastifyContextConfig {
    /** Whether the path exists but does not support this method. */
    isRefused?: boolean
    /** Rejects callers that may not take part in any group. */
    takesPart?: boolean
    /** With `takesPart`: also allows administrators, who may use force. */
    administers?: boolean
    /** Whether the body is a batch of renewals. */
    isBatch?: boolean
    /** Statuses of failures that this route can have, in addition to those of all routes. */
    failures?: readonly number[]
  }
}

/** Everything that the routes need. */
export interface Service {
  readonly state: Groups
  /** The secret in the storage's head. Every replica can open text that is sealed with it, even after a restart. */
  readonly secret: string
  readonly readiness: Readiness
  readonly replicas: Replicas
  /** The health of the storage itself, as seen from this replica. */
  readonly storageHealth: Readiness
  readonly hub: Hub
  readonly clock: Clock
  readonly metrics: Metrics
  readonly authenticator: Authenticator
  readonly revocations: Revocations
  /** The policy of groups without a definition. */
  readonly policy: Policy
  readonly openResponses: OpenResponses
  readonly presence: WatchPresence
  readonly limits: Limits
  /** Divides the event loop among the callers. */
  readonly fairQueue: FairQueue
  readonly tls: Tls | undefined
  /** Host names to which the service answers. Undefined means all. */
  readonly allowedHosts: readonly string[] | undefined
  readonly logger: FastifyBaseLogger
}
