import { filesystemType, refusalOf } from '@tenure/internal/filesystem'
import { TenureError } from '../common/errors.ts'

/**
 * Whether the path exists. Refuses a file system that several hosts may share, because a lock there may exclude only
 * the processes of one host.
 */
export async function findOnLocalFilesystem(path: string, allowNetworkFilesystem: boolean): Promise<boolean> {
  const type = await filesystemType(path)
  if (type === undefined) return false
  const refusal = allowNetworkFilesystem ? undefined : refusalOf(path, type)
  if (refusal === undefined) return true
  const { text, advice } = refusal
  throw new TenureError('UNSUPPORTED_FILESYSTEM', text, { option: 'allowNetworkFilesystem', advice })
}
