/**
 * The wording of option errors, in a file that the command line can bundle without the library. Internal to Tenure's
 * own packages: it may change in any release, so they depend on this exact version.
 *
 * @module
 */
export { isTenureError, optionMessage, TenureError } from '../common/errors.ts'
