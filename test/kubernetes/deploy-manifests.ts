import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { findBlocks } from '../documents.ts'
import { folder, listFilesIn, readManifest, type Manifest } from './manifests.ts'

export const isKustomization = (file: string) => basename(file) === 'kustomization.yaml'
export const isPatch = (file: string) => file.endsWith('-patch.yaml')
const isConfiguration = (file: string) => basename(file) === 'kustomizeconfig.yaml'
/** The manifests of an elector. The election service has its own folder. */
export const files = listFilesIn(folder).filter((file) => !file.startsWith('service/'))
export const objects = files.filter((file) => !isKustomization(file) && !isPatch(file) && !isConfiguration(file))
export const readme = readFileSync(join(folder, 'README.md'), 'utf8')
export const blocksOfReadme = findBlocks('README.md', readme)
  .filter(({ info }) => info[0] === 'yaml')
  .map(({ code }) => code)

export interface Deployment extends Manifest {
  readonly spec: {
    readonly selector: { readonly matchLabels: Record<string, string> }
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string>; readonly annotations?: Record<string, string> }
      readonly spec: {
        readonly serviceAccountName: string
        readonly terminationGracePeriodSeconds: number
        readonly containers: readonly { readonly env: readonly { readonly name: string }[] }[]
      }
    }
  }
}
export const deployment = readManifest('deployment.yaml') as Deployment
