/** How the library checks options, for authors of stores and tools. */
export { checkOptions, type OptionNames } from './check-options.ts'
export { invalidOption, optionMessage } from '../errors.ts'
export { nearest } from './nearest.ts'
