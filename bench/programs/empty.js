// The baseline: the time that Node itself needs to run a module.
if (typeof process !== 'object') throw new Error('This program must run in Node.')
