import type { Resources } from '../../../tenure/src/multicluster/resources.ts'
import type { Link } from '../../../testing/src/simulation/link.ts'

/** An API server behind a link. Every request and every event is a message that may be affected by a fault. */
export function linkResources(link: Link, resources: Resources): Resources {
  return {
    get: (key, call) => link.send(call, (options) => resources.get(key, options)),
    create: (key, spec, election, call) => link.send(call, (options) => resources.create(key, spec, election, options)),
    patchSpec: (key, patch, call) => link.send(call, (options) => resources.patchSpec(key, patch, options)),
    patchStatus: (key, patch, over, call) =>
      link.send(call, (options) => resources.patchStatus(key, patch, over, options)),
    watch: (of, call) => link.follow(call, (options) => resources.watch(of, { ...options, isKnown: call.isKnown })),
  }
}
