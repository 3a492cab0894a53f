/** The manifests and the compose file of the election service on several machines. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { serveSettings } from '../../packages/cli/src/commands/serve/settings.ts'
import { flagOf } from '../../packages/cli/src/shared/arguments/settings.ts'
import { listFilesIn, parseOne, type Manifest } from '../kubernetes/manifests.ts'
import { root } from '../source-files.ts'

export const manifestFolder = join(root, 'deploy/kubernetes/service')
export const composeFolder = join(root, 'deploy/compose')
export const manifestFiles = listFilesIn(manifestFolder)

export interface Variable {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } }
}

export interface StatefulSet extends Manifest {
  readonly spec: {
    readonly serviceName: string
    readonly selector: { readonly matchLabels: Record<string, string> }
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string> }
      readonly spec: {
        readonly serviceAccountName: string
        readonly containers: readonly [
          {
            readonly args: readonly string[]
            readonly env: readonly Variable[]
            readonly envFrom: readonly { readonly configMapRef: { readonly name: string } }[]
            readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
            readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
          },
        ]
        readonly volumes: readonly {
          readonly name: string
          readonly secret?: { readonly secretName: string }
          readonly configMap?: { readonly name: string }
        }[]
      }
    }
  }
}

export const readServiceManifest = (file: string): Manifest =>
  parseOne(readFileSync(join(manifestFolder, file), 'utf8'))
export const statefulSet = readServiceManifest('statefulset.yaml') as StatefulSet

export interface Composed {
  readonly image: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly volumes?: readonly string[]
  readonly networks: readonly string[]
}

export const compose = parse(readFileSync(join(composeFolder, 'compose.yaml'), 'utf8'), { merge: true }) as {
  readonly services: Readonly<Record<string, Composed>>
  readonly networks: Readonly<Record<string, unknown>>
  readonly volumes: Readonly<Record<string, unknown>>
}

/** Returns the flags of a command line that `tenure serve` does not have. */
export function unknownFlags(args: readonly string[]): string[] {
  const known = Object.entries(serveSettings)
    .filter(([, { withoutFlag }]) => !withoutFlag)
    .map(([name]) => flagOf(name))
  return args.filter((arg) => arg.startsWith('--') && !known.includes(arg.replace(/=.*/, '')))
}
