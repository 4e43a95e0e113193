package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/platform/command"
)

// none removes a term.
const none = "none"

// setter is the value of a flag that calls a function.
type setter struct {
	kind string
	set  func(text string) error
}

// String, Set and Type implement pflag.Value.
func (setter) String() string          { return "" }
func (s setter) Set(text string) error { return s.set(text) }
func (s setter) Type() string          { return s.kind }

// termFlags adds the flags of terms.
func termFlags(flags *pflag.FlagSet, t *apikey.Terms) {
	flags.Var(setter{"number", func(text string) (err error) {
		if t.TokensPerMinute = 0; text == none {
			return nil
		}
		if t.TokensPerMinute, err = strconv.ParseInt(text, 10, 64); err != nil || t.TokensPerMinute == 0 {
			return apikey.ErrTokensPerMinute
		}
		return nil
	}}, "tpm", "tokens per minute and model; none for no bound")
	flags.Var(setter{"name", func(name string) error {
		t.Models = append(t.Models, name)
		return nil
	}}, "model", "model that the key may use; repeatable")
	flags.Var(setter{"cents/period", func(text string) (err error) {
		if t.Budget = (apikey.Budget{}); text == none {
			return nil
		}
		t.Budget, err = apikey.ParseBudget(text)
		return err
	}}, "budget", "ceiling in cents and its period, such as 5000/month; none for no ceiling")
	flags.Var(setter{"class", func(text string) error {
		if t.Class = apikey.Class(text); text == none {
			t.Class = ""
		}
		return nil
	}}, "class", "priority: interactive, standard or bulk; none for the organization's")
}

// setTerms changes the terms that the flags name.
func setTerms() (*cobra.Command, managed) {
	c := &cobra.Command{Use: "terms ID", Short: "set what a key may use; terms that no flag names stay", Args: command.Args(1, 1)}
	var t apikey.Terms
	var u apikey.Update
	termFlags(c.Flags(), &t)
	c.Flags().Bool("all-models", false, "the key may use all models")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		var err error
		if u, err = named(c.Flags(), &t); err != nil {
			return command.Wrong(c, err.Error())
		}
		return nil
	}
	return c, func(ctx context.Context, manager *apikey.Manager, by apikey.Actor, args []string, out io.Writer) error {
		key, err := manager.Update(ctx, by, args[0], u)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, "terms of", key.ID, key.Terms)
		return err
	}
}

// named returns an update of the terms whose flags were given.
func named(flags *pflag.FlagSet, t *apikey.Terms) (u apikey.Update, err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "tpm":
			u.TokensPerMinute = &t.TokensPerMinute
		case "model", "all-models":
			if u.Models != nil {
				err = errors.New("use --model or --all-models, not both")
			}
			u.Models = &t.Models
		case "budget":
			u.Budget = &t.Budget
		case "class":
			u.Class = &t.Class
		}
	})
	if u == (apikey.Update{}) {
		return u, errors.New("set at least one flag of the terms to change")
	}
	return u, err
}
