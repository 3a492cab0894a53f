import { expect, test } from 'vitest'
import * as library from '../../src/index.ts'
import * as kubernetes from '../../src/kubernetes/index.ts'
import { LeaderElector } from '../../src/styles/leader-elector.ts'
import { memoryStore } from '../../src/stores/memory.ts'

const good = {
  store: memoryStore(),
  leaseName: 'my-app',
  leaseNamespace: 'default',
  identity: 'pod-a',
  callbacks: { onStartedLeading: () => undefined },
}
const make = (more: object) => () => new LeaderElector({ ...good, ...more })

test.each([undefined, ''])('an identity that is %j leads to POD_NAME and the downward API', (identity) => {
  expect(make({ identity })).toThrow(
    expect.objectContaining({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(
        /^Option "identity" is .* in a pod POD_NAME, set by the downward API \(metadata\.name\)\.$/,
      ),
    }),
  )
})

test.each([
  ['leaseDuration', 'leaseDurationMs'],
  ['LeaseDuration', 'leaseDurationMs'],
  ['renewDeadline', 'renewDeadlineMs'],
  ['RenewDeadline', 'renewDeadlineMs'],
  ['retryPeriod', 'retryPeriodMs'],
  ['RetryPeriod', 'retryPeriodMs'],
  ['ReleaseOnCancel', 'releaseOnCancel'],
  ['Callbacks', 'callbacks'],
  ['Identity', 'identity'],
])('client-go’s %s is answered with %s', (name, meant) => {
  expect(make({ [name]: 1 })).toThrow(`LeaderElector has no option "${name}". Did you mean "${meant}"?`)
})

test.each(['OnStartedLeading', 'OnStoppedLeading', 'OnNewLeader'])('so is a callback in Go’s letters: %s', (name) => {
  const meant = `${name[0]?.toLowerCase()}${name.slice(1)}`
  const callbacks = { ...good.callbacks, [name]: () => undefined }
  expect(make({ callbacks })).toThrow(`callbacks has no option "${name}". Did you mean "${meant}"?`)
})

test('a name that is like none is answered with all there are', () => {
  expect(make({ watchDog: {} })).toThrow(
    /^LeaderElector has no option "watchDog"\. It takes store, leaseName, leaseNamespace, /,
  )
})

test('one LeaderElector is exported for any store and for Kubernetes', () => {
  expect(kubernetes.LeaderElector).toBe(library.LeaderElector)
})
