// Small components that the views share.
import { Alert, Badge, Box, Button, Checkbox, Dialog, Field, HStack, Portal, Spinner, Table, VisuallyHidden } from "@chakra-ui/react";
import { Component, type ReactNode, useEffect, useRef, useState } from "react";
import type { Health } from "./api";
import { mark, palette } from "./format";

/** A table with a title for each column. */
export function TitledTable({ label, titles, children }: { label: string; titles: string[]; children: ReactNode }) {
  return (
    <Table.Root size="sm" aria-label={label}>
      <Table.Header>
        <Table.Row>
          {titles.map((title) => (
            <Table.ColumnHeader key={title}>{title}</Table.ColumnHeader>
          ))}
        </Table.Row>
      </Table.Header>
      <Table.Body>{children}</Table.Body>
    </Table.Root>
  );
}

/** A checkbox. Only screen readers get its label, unless `isLabelVisible`. */
export function LabelledCheckbox({ label, checked, change, isLabelVisible = false }: { label: string; checked: boolean; change: () => void; isLabelVisible?: boolean }) {
  return (
    <Checkbox.Root size="sm" checked={checked} onCheckedChange={change}>
      <Checkbox.HiddenInput />
      <Checkbox.Control />
      <Checkbox.Label>{isLabelVisible ? label : <VisuallyHidden>{label}</VisuallyHidden>}</Checkbox.Label>
    </Checkbox.Root>
  );
}

/** The error of a form's field: darker than the theme's error text, whose contrast is below 4.5:1. */
export const FieldError = ({ children }: { children: ReactNode }) => <Field.ErrorText color="red.fg">{children}</Field.ErrorText>;

export function State({ state, note }: { state: string | null; note?: string }) {
  return (
    <Badge colorPalette={palette(state)} variant={state === "STOPPED" ? "outline" : "subtle"}>
      <span aria-hidden="true">{mark(state)}</span> {state ?? "NO STATUS"}
      {note ? ` ${note}` : ""}
    </Badge>
  );
}

const HEALTH_PALETTES: Record<string, string> = { failing: "red", healthy: "green", idle: "gray" };

/** The health's word, with its reason as a tooltip. */
export function HealthWord({ health: { word, reason } }: { health: Health }) {
  return (
    <Badge colorPalette={HEALTH_PALETTES[word] ?? "orange"} variant="subtle" title={reason ?? undefined}>
      {word}
    </Badge>
  );
}

/** Whether users should look at the connector. */
export const needsAttention = ({ health }: { health: Health | null }) => health !== null && health.word !== "healthy" && health.word !== "idle";

export const reasonColor = ({ word }: Health) => (word === "failing" ? "red.fg" : "orange.fg");

export function Problem({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Alert.Root status="error" role="alert" my={2}>
      <Alert.Indicator />
      <Alert.Content>
        <Alert.Title>{title}</Alert.Title>
        {children ? <Alert.Description whiteSpace="pre-wrap">{children}</Alert.Description> : null}
      </Alert.Content>
    </Alert.Root>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <HStack role="status" p={4}>
      <Spinner size="sm" aria-hidden="true" /> {what}
    </HStack>
  );
}

export type Message = { kind: "success" | "error"; text: string } | null;

/** The result of the last action, announced by screen readers. */
export function Notice({ message, clear }: { message: Message; clear: () => void }) {
  return (
    <Box role="status" aria-live="polite">
      {message ? (
        <Alert.Root status={message.kind} my={2}>
          <Alert.Indicator />
          <Alert.Content>
            <Alert.Description whiteSpace="pre-wrap">{message.text}</Alert.Description>
          </Alert.Content>
          <Button size="xs" variant="ghost" onClick={clear}>
            Dismiss
          </Button>
        </Alert.Root>
      ) : null}
    </Box>
  );
}

export type Question = { title: string; text: string; label: string; act: () => Promise<unknown> | void };

/** Asks for confirmation before an action that is hard to undo. */
export function Confirm({ question, close }: { question: Question | null; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  const last = useRef<Question | null>(null);
  if (question) last.current = question;
  const shown = last.current;
  const confirm = async () => {
    setBusy(true);
    try {
      await question?.act();
    } finally {
      setBusy(false);
      close();
    }
  };
  return (
    <Dialog.Root role="alertdialog" open={question !== null} onOpenChange={() => (busy ? undefined : close())} initialFocusEl={() => cancel.current}>
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content>
            <Dialog.Header>
              <Dialog.Title>{shown?.title}</Dialog.Title>
            </Dialog.Header>
            <Dialog.Body whiteSpace="pre-wrap">{shown?.text}</Dialog.Body>
            <Dialog.Footer>
              <Button ref={cancel} variant="outline" onClick={close} disabled={busy}>
                Cancel
              </Button>
              <Button colorPalette="red" onClick={() => void confirm()} loading={busy}>
                {shown?.label}
              </Button>
            </Dialog.Footer>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}

/** Contains errors: otherwise Airflow replaces its whole page with an error when a plugin throws. */
export class Boundary extends Component<{ what: string; children: ReactNode }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <Problem title={`${this.props.what} cannot be shown`}>
        {this.state.error.message}
        {"\n"}
        <Button size="xs" mt={2} variant="outline" onClick={() => this.setState({ error: null })}>
          Retry
        </Button>
      </Problem>
    );
  }
}

/** Sets the document's title while the view is shown. */
export function useTitle(title: string) {
  useEffect(() => {
    const before = document.title;
    document.title = title;
    return () => {
      document.title = before;
    };
  }, [title]);
}
