/** How the library checks options, for authors of stores and tools. */
export { checkOptions, type OptionNames } from '../common/check-options.ts'
export { invalidOption, optionMessage } from '../common/errors.ts'
export { nearest } from '../common/nearest.ts'
